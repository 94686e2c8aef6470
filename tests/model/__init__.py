"""A model of how Headrace writes to Kafka exactly once, and a search for schedules that break it.

Read in this order; five minutes are enough:

    kafka.py       the world: transactions with epochs, logs that readers see committed, a group's
                   offsets that are pending until their transaction's marker has come
    rules.py       the protocol in five steps: `Rules.write` of a task, `Rules.claim` of a driver
    actors.py      who acts: drivers with a state on disk, and what a batch is
    world.py       all moves that can come next: calls, calls without an answer, late and repeated
                   requests, zombies, kills, timeouts, lost states, resets, a ledger that expires
    invariants.py  what must hold after each move, and when everything has been done
    variants.py    the protocol with one step changed: those that break it, and those that do not
    schedules.py   random schedules from a seed, played again and made shorter
    machine.py     the same moves for hypothesis, which looks for schedules in its own way

To see a counterexample in the fewest moves: `python -m tests.model LedgerGoesBack`.

The model shares no code with Headrace. It shows that the protocol is right; that the code follows
the protocol is shown by the tests with a real Kafka, and by `make chaos`.
What it has taught is in `docs/decisions/0017-the-model.md`.
"""

"""Statements in a shell: what they keep, what they refuse, and what they never show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.errors import DefinitionError, HeadraceError, WrongState
from headrace.frontend.sql.parser import parse
from headrace.frontend.sql.statements import Insert
from headrace.project import Project
from headrace.runtime.state import PipelineState
from headrace.shell.result import Result
from headrace.shell.session import Session

CONNECTION = """
CREATE CONNECTION shop TO kafka (
    bootstrap_servers = 'nowhere:9092', topic = 'orders', type = 'source', format = 'json'
);
"""
TABLE = "CREATE TABLE orders ( id BIGINT, amount DOUBLE ) WITH ( connector = 'shop' );"
SINK = """
CREATE TABLE large WITH (
    connector = 'kafka', bootstrap_servers = 'nowhere:9092', topic = 'large', format = 'json'
);
"""
VIEW = "CREATE VIEW big AS SELECT * FROM orders WHERE amount > 10;"
PIPELINE = "CREATE PIPELINE copying WITH ( sink = 'large' ) AS SELECT id FROM big;"
ALL = CONNECTION + TABLE + SINK + VIEW + PIPELINE


class Shell:
    """A session, and short ways to ask it."""

    def __init__(self, folder: Path) -> None:
        self.project = Project(folder)
        self.session = Session(self.project)

    def do(self, text: str) -> list[Result]:
        return list(self.session.run(text))

    def one(self, text: str) -> Result:
        (result,) = self.do(text)
        return result

    def faults(self, text: str) -> list[str]:
        with pytest.raises(DefinitionError) as raised:
            self.do(text)
        return [str(fault) for fault in raised.value.diagnostics]

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in Catalog.of(self.project).entries()]

    def runs(self, name: str) -> Any:
        """As if a process ran the pipeline."""
        state = PipelineState(self.project.ensure(self.project.state(name)))
        return state.lock(name)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# Definitions


def test_what_one_shell_creates_is_there_in_the_next(shell: Shell) -> None:
    notes = [result.note for result in shell.do(ALL)]
    assert notes == [
        "connection shop is created",
        "table orders is created",
        "table large is created",
        "view big is created",
        "pipeline copying is created; START PIPELINE copying runs it",
    ]
    other = Shell(shell.project.root)
    assert other.one("SHOW TABLES").rows == (
        ("orders", "shop", "kafka", "source", "orders", "id BIGINT, amount DOUBLE"),
        ("large", None, "kafka", None, "large", None),
    )
    assert other.one("SHOW CREATE VIEW big").text == VIEW
    story = other.one("EXPLAIN copying").story
    assert story is not None
    assert story["pipeline"] == "copying"


def test_of_a_text_with_a_fault_nothing_is_done(shell: Shell) -> None:
    faults = shell.faults(CONNECTION + TABLE + "SELECT nme FROM orders; DROP VIEW big; CRAETE x;")
    codes = [fault.split(" ")[1] for fault in faults]
    assert codes == ["UNKNOWN_COLUMN", "UNKNOWN_VIEW", "UNKNOWN_STATEMENT"]
    assert shell.names == []


def test_statements_are_checked_on_top_of_those_before_them(shell: Shell) -> None:
    """A script may make what it uses, and clean up after itself."""
    script = ALL + "SHOW CREATE big; DROP PIPELINE copying; DROP VIEW big; CREATE VIEW big AS "
    shell.do(script + "SELECT id FROM orders; DROP CONNECTION shop CASCADE;")
    assert shell.names == ["large"]


def test_a_name_is_taken_once(shell: Shell) -> None:
    shell.do(CONNECTION + TABLE)
    assert "NAME_TWICE there is a table `orders` already" in shell.faults(TABLE)[0]
    assert (
        "NAME_TWICE `shop` is the name of a connection"
        in shell.faults("CREATE OR REPLACE VIEW shop AS SELECT 1 AS x FROM orders")[0]
    )
    same = TABLE.replace("TABLE", "TABLE IF NOT EXISTS")
    assert shell.one(same).note == "there is a table orders already; nothing was changed"
    new = TABLE.replace("CREATE", "CREATE OR REPLACE").replace("DOUBLE", "INT")
    assert shell.one(new).note == "table orders is replaced"
    assert shell.one("DESCRIBE orders").rows[1] == ("amount", "INT", True, None)


def test_a_script_may_replace_what_it_has_made(shell: Shell) -> None:
    """Whoever uses it, and whatever else those use."""
    other = TABLE.replace("orders", "others")
    joined = "CREATE VIEW both AS SELECT o.id FROM orders o JOIN others USING (id);"
    script = CONNECTION + TABLE + other + joined + SINK
    shell.do(script + TABLE.replace("CREATE", "CREATE OR REPLACE"))
    assert shell.names == ["shop", "orders", "others", "both", "large"]


def test_a_replacement_must_suit_those_who_use_it(shell: Shell) -> None:
    shell.do(ALL)
    renamed = TABLE.replace("CREATE", "CREATE OR REPLACE").replace("amount", "price")
    faults = shell.faults(renamed)
    assert faults == [
        "catalog:big:1:47 UNKNOWN_COLUMN `amount` is not a column of what is read here "
        "(known: id, price)"
    ]
    assert "amount" in str(shell.one("SHOW CREATE orders").text)


def test_what_was_wrong_before_is_not_held_against_another(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVERS", "nowhere:9092")
    shell.do(CONNECTION.replace("nowhere:9092", "${env:SERVERS}") + TABLE)
    monkeypatch.delenv("SERVERS")
    assert "UNDEFINED_VARIABLE" in shell.faults(VIEW)[0]
    # It does not need the connection; and a table can be replaced whose connection is broken.
    shell.do(SINK)
    assert shell.one("DROP TABLE orders").note == "dropped: table orders"


def test_a_table_that_nobody_uses_yet_may_be_a_sink(shell: Shell) -> None:
    assert shell.one(SINK).note == "table large is created"
    assert "MISSING_OPTION the kafka source needs columns" in shell.faults("SELECT * FROM large")[0]


def test_warnings_come_with_the_result(shell: Shell) -> None:
    text = CONNECTION.replace("topic =", "'enable.auto.commit' = 'false', topic =")
    (warning,) = shell.one(text).warnings
    assert warning.startswith("sql:3:41 NO_EFFECT `enable.auto.commit` has no effect")


# DROP


def test_what_is_used_is_not_dropped(shell: Shell) -> None:
    shell.do(ALL)
    (fault,) = shell.faults("DROP CONNECTION shop")
    assert fault == (
        "sql:1:17 IN_USE the connection `shop` is used by table `orders`, view `big`, "
        "pipeline `copying` (DROP CONNECTION shop CASCADE drops these, too)"
    )
    assert (
        "WRONG_KIND `big` is a view, not a table (write VIEW big)"
        in shell.faults("DROP TABLE big")[0]
    )
    shell.do("DROP CONNECTION shop CASCADE")
    assert shell.names == ["large"]


def test_a_pipeline_that_runs_is_not_dropped_and_keeps_its_definition(shell: Shell) -> None:
    shell.do(ALL)
    with shell.runs("copying"):
        assert "IN_USE pipeline `copying` runs" in shell.faults("DROP VIEW big CASCADE")[0]
        assert shell.names[-1] == "copying"
        advice = "copying runs on as it was until it is restarted: STOP PIPELINE copying; START "
        for text in (PIPELINE, VIEW, TABLE):
            note = shell.one(text.replace("CREATE", "CREATE OR REPLACE")).note
            assert note is not None
            assert advice in note
    note = shell.one(PIPELINE.replace("CREATE", "CREATE OR REPLACE")).note
    assert note == "pipeline copying is replaced"


def test_the_state_of_a_pipeline_outlives_it_unless_it_is_purged(shell: Shell) -> None:
    shell.do(ALL)
    with shell.runs("copying"):
        pass
    folder = shell.project.state("copying")
    note = shell.one("DROP PIPELINE copying").note
    assert note == f"dropped: pipeline copying; the state in {folder} stays (PURGE removes it)"
    assert folder.is_dir()
    shell.do(PIPELINE)
    shell.do("DROP PIPELINE copying PURGE")
    assert not folder.exists()
    assert shell.one("DROP PIPELINE IF EXISTS copying").note == (
        "there is no pipeline copying; nothing was changed"
    )


# Secrets

HIDDEN = "hunter2"
LOGIN = f"""
CREATE SECRET pw AS '{HIDDEN}';
CREATE CONNECTION safe TO jdbc (
    url = 'jdbc:postgresql://db/shop', user = 'me', password = '${{secret:pw}}'
);
CREATE CONNECTION unsafe TO jdbc (
    url = 'jdbc:postgresql://db/shop', user = 'me', password = '{HIDDEN}'
);
"""


def everything_told(action: Callable[[], object]) -> str:
    """All that a user may see of what it gives or raises."""
    try:
        return repr(action())
    except DefinitionError as error:
        return f"{error} {error.hint} {[repr(fault) for fault in error.diagnostics]} {error!r}"
    except HeadraceError as error:
        return f"{error!r} {error.hint}"


@pytest.mark.parametrize(
    "text",
    [
        "SHOW SECRETS",
        "SHOW CONNECTIONS",
        "SHOW CREATE SECRET pw",
        "SHOW CREATE safe",
        "SHOW CREATE unsafe",
        "DESCRIBE SECRET pw",
        "DESCRIBE safe",
        "DESCRIBE unsafe",
        "DROP SECRET pw",
        f"CREATE SECRET pw AS '{HIDDEN}'",
        f"CREATE OR REPLACE SECRET pw AS '{HIDDEN}'",
        f"CREATE SECRET other AS '{HIDDEN}' '{HIDDEN}'",
        f"CREATE SECRET other AS {HIDDEN}",
        f"CREATE SECRET other '{HIDDEN}'",
        f"CREATE SECRET other AS '{HIDDEN}",
        f"CREATE CONNECTION c TO jdbc ( password = '{HIDDEN}', pasword = '{HIDDEN}' )",
        f"CREATE CONNECTION c TO jdbc ( password = ('{HIDDEN}', '{HIDDEN}') )",
        "CREATE TABLE t WITH ( connector = 'safe', table = 'x', password = '${secret:pw}' )",
        "EXPLAIN copying",
    ],
)
def test_a_secret_is_never_shown(shell: Shell, text: str) -> None:
    shell.do(LOGIN)
    shell.do(
        "CREATE TABLE rows ( id BIGINT ) WITH "
        "( connector = 'safe', table = 'orders', column = 'id' ); "
        "CREATE TABLE seen WITH ( connector = 'unsafe', table = 'seen' ); "
        "CREATE PIPELINE copying WITH ( sink = 'seen', mode = 'batch' ) AS SELECT id FROM rows"
    )
    assert HIDDEN not in everything_told(lambda: shell.do(text))


def test_a_statement_with_a_secret_is_not_kept(shell: Shell) -> None:
    shell.do(f"CREATE SECRET pw AS '{HIDDEN}'; CREATE SECRET out FROM ENV 'NOT_SET_HERE'")
    assert shell.names == []
    assert shell.one("SHOW SECRETS").rows == (("out", "NOT_SET_HERE", False), ("pw", None, True))
    assert "NAME_TWICE" in shell.faults("CREATE SECRET PW AS 'x'")[0]
    (warning,) = shell.one("CREATE OR REPLACE SECRET out FROM ENV 'STILL_NOT'").warnings
    assert warning == "the environment variable STILL_NOT is not set here"


def test_whoever_runs_with_an_old_secret_is_named(shell: Shell) -> None:
    shell.do(LOGIN)
    shell.do(
        "CREATE TABLE seen WITH ( connector = 'safe', table = 'seen' ); "
        "CREATE TABLE gen WITH ( connector = 'impulse' ); "
        "CREATE PIPELINE seeing WITH ( sink = 'seen' ) AS SELECT n FROM gen"
    )
    with shell.runs("seeing"):
        note = shell.one("CREATE OR REPLACE SECRET pw AS 'another'").note
    assert note is not None
    assert note.startswith("secret pw is replaced; seeing runs on as it was until it is restarted")


def test_a_secret_that_is_used_is_not_dropped(shell: Shell) -> None:
    shell.do(LOGIN)
    (fault,) = shell.faults("DROP SECRET pw")
    assert "IN_USE the secret `pw` is used by connection `safe`" in fault
    shell.do("DROP SECRET pw CASCADE")
    assert shell.names == ["unsafe"]
    assert "no secret `pw`" in shell.faults(LOGIN.partition(";")[2])[0]


# INSERT, START and the rest


def test_start_and_its_kin_need_a_pipeline_in_the_right_state(shell: Shell) -> None:
    shell.do(ALL)
    assert "UNKNOWN_PIPELINE" in shell.faults("START PIPELINE coping")[0]
    assert "WRONG_KIND" in shell.faults("STOP PIPELINE big")[0]
    assert "did you mean `once`?" in shell.faults("START PIPELINE copying WITH ( onc = true )")[0]
    assert "takes no options" in shell.faults("STOP PIPELINE copying WITH ( once = true )")[0]
    assert shell.one("STOP PIPELINE copying").note == "copying was not running"
    for text, state in (("PAUSE", "does not run"), ("RESUME", "is not paused")):
        with pytest.raises(WrongState, match=state):
            shell.do(f"{text} PIPELINE copying")


def test_a_pipeline_in_a_process_of_another_kind_is_left_alone(shell: Shell) -> None:
    """This test is such a process: it holds the lock, and is no `headrace run`."""
    shell.do(ALL)
    with shell.runs("copying"), pytest.raises(WrongState, match="no `headrace run`"):
        shell.do("STOP PIPELINE copying")


def test_inserts_become_pipelines_that_are_named_after_their_table(shell: Shell) -> None:
    shell.do(CONNECTION + TABLE + SINK)
    faults = shell.faults("INSERT INTO lage SELECT id FROM orders; STOP PIPELINE into_lage")
    assert [fault.split(" ")[1] for fault in faults] == ["UNKNOWN_SINK"]
    assert shell.names == ["shop", "orders", "large"]
    kept = shell.session._kept()
    texts = [f"INSERT INTO large SELECT {value} AS id FROM orders" for value in ("id", "1")]
    made = []
    for text in (*texts, *texts):
        (insert,), _ = parse(text)
        assert isinstance(insert, Insert)
        made.append(kept.inserted(insert).name.text)
        kept, _ = kept.after(insert)
    assert made == ["into_large", "into_large_2", "into_large", "into_large_2"]


def test_settings_are_for_one_shell(shell: Shell) -> None:
    assert shell.one("SET scan = all").note == "scan is all"
    assert shell.one("SET rows = 5").note == "rows is 5"
    assert [row[:2] for row in shell.one("SET").rows] == [("scan", "all"), ("rows", "5")]
    assert Shell(shell.project.root).one("SET scan").note == "scan is 100000"
    for text in ("SET rows = 0", "SET rows = some"):
        assert "BAD_VALUE" in shell.faults(text)[0]
    assert "did you mean `scan`?" in shell.faults("SET scna = 1")[0]


def test_system_tables_and_tests_need_no_spark(shell: Shell) -> None:
    shell.do(ALL)
    found = shell.one("SELECT name, state FROM system.pipelines WHERE name::text LIKE 'copy%'")
    assert (found.columns, found.rows) == (("name", "state"), (("copying", "created"),))
    assert "UNKNOWN_TABLE" in shell.faults("SELECT * FROM system.pipeline")[0]
    assert "stands alone" in shell.faults("SELECT test_connection(name) FROM system.views")[0]
    assert shell.one("DESCRIBE system.views").rows[0][:2] == ("name", "STRING")
    assert "UNKNOWN_TABLE" in shell.faults("DESCRIBE system.vews")[0]


def test_a_plan_is_told_without_spark_and_without_a_sink(shell: Shell) -> None:
    shell.do(ALL)
    for text in ("EXPLAIN big", "EXPLAIN SELECT * FROM big", "EXPLAIN orders"):
        result = shell.one(text)
        assert result.story is not None
        assert result.story["queries"][0]["stages"][0]["stage"] == "Read"
        assert result.note == "there is no sink: SELECT shows its rows, and nothing is written"
    inserted = shell.one("EXPLAIN INSERT INTO large SELECT id FROM orders").story
    assert inserted is not None
    assert inserted["queries"][0]["stages"][-1]["stage"] == "Write"
    assert "MISSING_SINK" in shell.faults("EXPLAIN CODE SELECT * FROM big")[0]
    assert shell.one("EXPLAIN SELECT * FROM system.views").story is None


def test_two_shells_do_not_see_half_of_a_change(shell: Shell) -> None:
    """One drops what another's new table needs: whoever comes second is refused."""
    other = Shell(shell.project.root)
    shell.do(CONNECTION)
    results = other.session.run("SHOW TABLES; " + TABLE)
    next(results)
    shell.do("DROP CONNECTION shop")
    assert "UNKNOWN_CONNECTOR" in everything_told(lambda: next(results))
    assert shell.names == []
    shell.do(CONNECTION)
    results = shell.session.run("SHOW TABLES; DROP CONNECTION shop")
    next(results)
    other.do(TABLE)
    assert "IN_USE" in everything_told(lambda: next(results))
    assert shell.names == ["shop", "orders"]
    for text in ("DESCRIBE orders", "SELECT * FROM orders", "SHOW CREATE orders", "EXPLAIN orders"):
        results = shell.session.run(f"SHOW TABLES; {text}")
        next(results)
        other.do("DROP TABLE orders")
        assert "UNKNOWN_" in everything_told(lambda: next(results))  # noqa: B023
        other.do(TABLE)

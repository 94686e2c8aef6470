"""From text to a `Pipeline`: parsing, names, options, and every fault with its place."""

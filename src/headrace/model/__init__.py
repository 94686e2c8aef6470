"""What the user meant: frozen, comparable definitions, whichever front-end they came from."""

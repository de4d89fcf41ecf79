"""Where embedded records go; one kind of sink per file."""

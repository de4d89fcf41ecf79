"""Where embedded records go; one kind of sink a file."""

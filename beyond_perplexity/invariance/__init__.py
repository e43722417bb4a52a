"""Numbers that do not know how the work was cut."""

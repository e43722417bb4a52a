"""What the package offers to notebooks and programs: a function a module, and its result."""

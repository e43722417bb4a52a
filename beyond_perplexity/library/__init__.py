"""What `beyond_perplexity` offers to notebooks and programs: a function a module, and its result."""

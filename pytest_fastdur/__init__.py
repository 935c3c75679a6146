"""A pytest plugin that kills durable workflows at every boundary, resumes them, and checks what is left."""

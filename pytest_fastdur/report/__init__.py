"""What a sweep says: plain data that travels between processes, and how it is printed."""

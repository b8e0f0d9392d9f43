"""How servers are spoken to: connections, and nothing that knows of locks."""

"""Connections to a memcached, by the text of its meta commands; nothing here knows of locks."""

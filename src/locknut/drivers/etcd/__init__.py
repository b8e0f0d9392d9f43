"""Connections to the members of an etcd cluster, by gRPC; nothing here knows of locks."""

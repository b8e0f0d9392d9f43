"""The etcd engine in the simulator: the production recipe on a reference of what etcd does."""

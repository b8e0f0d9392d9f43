"""The etcd engine: locks between machines, kept by a majority, in line with `etcdctl lock`."""

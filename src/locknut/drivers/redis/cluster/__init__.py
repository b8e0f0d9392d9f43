"""The nodes of a Redis or Valkey cluster: every key is in one slot, every slot at one node."""

"""A Redis or Valkey cluster: every lock lives in one slot, and every slot at one node at a time."""

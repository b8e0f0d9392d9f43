"""What a number of locks needs of an engine, from costs that were measured; no engine is asked."""

from locknut.capacity.costs import ENGINES, Costs, costs_of
from locknut.capacity.estimate import Demand, Needs, estimate

__all__ = ["ENGINES", "Costs", "Demand", "Needs", "costs_of", "estimate"]

"""Session mode: a hold ends with the database session that has it; the row says who holds."""

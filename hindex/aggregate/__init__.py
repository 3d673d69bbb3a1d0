"""Answer COUNT, MIN, MAX, GROUP BY, and ORDER BY … LIMIT from indexes and statistics."""

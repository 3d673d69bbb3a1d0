"""From predicates to filters: types, normal form, evaluation, and explanations of what was decided."""

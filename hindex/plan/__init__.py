"""Convert predicates to filters: types, normal form, evaluation, and the reasons of decisions."""

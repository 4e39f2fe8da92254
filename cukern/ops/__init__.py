"""Operations on arrays, by family; :mod:`cukern.namespace` gathers them."""

"""Operations on arrays, by family; :mod:`cukern.namespace` collects them."""

"""Modified Kneser–Ney in plain dictionaries, straight from its definition: the oracle of tests."""

from collections import Counter
from functools import cache

FALLBACK = (0.5, 1.0, 1.5)
Gram = tuple[int, ...]


class PlainKneserNey:
    """p(w | h) by recursion; words are ids, 0 is ``<s>``, 1 is ``</s>``.

    Parameters
    ----------
    sentences : list of list of int
        Without ``<s>`` and ``</s>``.
    order : int
    size : int
        V; all but ``<s>`` share the uniform distribution.
    prune : list of int
        A threshold an order.
    """

    def __init__(self, sentences, order, size, prune=None):
        self.order, self.size = order, size
        self.prune = prune or [0] * order
        self.plain: Counter[Gram] = Counter()
        for sentence in sentences:
            words = [0, *sentence, 1]
            for end in range(1, len(words) + 1):
                for length in range(1, min(order, end) + 1):
                    self.plain[tuple(words[end - length : end])] += 1
        left: dict[Gram, set[int]] = {}
        for gram in self.plain:
            left.setdefault(gram[1:], set()).add(gram[0])
        self.longest = max(map(len, self.plain))
        self.adjusted = {
            gram: len(left[gram])
            if gram[0] != 0 and len(gram) < self.longest and gram in left
            else count
            for gram, count in self.plain.items()
        }
        self.adjusted[(0,)] = 0
        self.discounts = [self.discount_of(n) for n in range(1, self.longest + 1)]
        self.following: dict[Gram, list[Gram]] = {}
        for gram in self.adjusted:
            self.following.setdefault(gram[:-1], []).append(gram)
        self.probability = cache(self.probability)  # type: ignore[method-assign]

    def discount_of(self, order):
        seen = Counter(a for gram, a in self.adjusted.items() if len(gram) == order)
        if not (seen[1] and seen[2] and seen[3]):
            return FALLBACK
        share = seen[1] / (seen[1] + 2 * seen[2])
        found = tuple(k - (k + 1) * share * seen[k + 1] / seen[k] for k in (1, 2, 3))
        return found if min(found) >= 0 else FALLBACK

    def lost(self, gram):
        """Return what a kept n-gram gives away, or all of a pruned one."""
        count = self.adjusted[gram]
        if self.plain[gram] <= self.prune[len(gram) - 1]:
            return count
        return self.discounts[len(gram) - 1][min(count, 3) - 1] if count else 0.0

    def probability(self, context, word):
        """Return p(word | context) with as much of the context as the order allows."""
        context = context[len(context) - min(len(context), self.longest - 1) :]
        shorter = self.probability(context[1:], word) if context else (word != 0) / (self.size - 1)
        grams = self.following.get(context, [])
        total = sum(self.adjusted[gram] for gram in grams)
        if not total:
            return shorter
        own = (*context, word)
        kept = self.adjusted[own] - self.lost(own) if own in self.adjusted else 0.0
        return (kept + sum(map(self.lost, grams)) * shorter) / total

    def kept(self, order):
        """Return the n-grams of an order that are not pruned."""
        least = self.prune[order - 1]
        return {gram for gram, n in self.plain.items() if len(gram) == order and n > least}

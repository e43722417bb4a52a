"""What the page about a comparison says of its figures, its tables and its numbers."""

from __future__ import annotations

from beyond_perplexity.tendencies.definitions import SHARE_NOUNS, SHARES

FIGURE_TEXTS = {
    "distances": (
        "Distances at a glance",
        "Distance between samples and reference per tendency, above it the floor, both at one "
        "size. White: as far as human text is from itself, and no star; blue: farther; violet: "
        "within the range of human text at that size, but the test of all documents finds it.",
    ),
    "length": (
        "Length of documents",
        "Boxes: quartiles; whiskers: 5th to 95th percentile; line: median; diamond: mean.",
    ),
    "types_by_length": (
        "Types by length",
        "Mean number of distinct tokens in documents of each length; the band holds 90% of the "
        "reference's documents, where a length has enough of them.",
    ),
    "types_by_length_distances": (
        "Distance of the number of types, by length",
        "KS distance at each length, to Heaps' law as fitted to the samples, as fitted to the "
        "reference, and to the reference itself.",
    ),
    "rank_frequency": (
        "Rank and frequency",
        "Relative frequency of each type by its rank, both axes logarithmic, with Zipf's law.",
    ),
    "vocabulary": ("Vocabulary", "Sizes, and how much of the vocabulary is shared."),
    **{
        name: (
            f"Share of {row.noun}",
            f"Density over documents{f'; {row.noun}: {row.note}' if row.note else ''}.",
        )
        for name, row in SHARES.items()
    },
}

EXPLANATION = f"""
<h2 id='reading'>How to read this</h2>
<dl>
<dt>Reference, samples</dt>
<dd>The value of the tendency in each text. {SHARE_NOUNS.capitalize()} are shares of a document's
tokens. Zipf's s: frequency falls with rank <em>k</em> like <em>k</em><sup>−s</sup>. Heaps' β: a
document of <em>l</em> tokens has about α<em>l</em><sup>β</sup> distinct ones.</dd>
<dt>Distance</dt>
<dd>How far apart the two distributions are: 0 when they are the same, 1 at most. <b>KS</b>
(Kolmogorov-Smirnov): the largest difference of the two cumulative distributions. <b>TVD</b> (total
variation): half of the sum of all differences of word probabilities, so the share of tokens that
would have to change. <b>max</b>: the largest difference for a single word; the note names that of
all documents. <b>MMD</b> (maximum mean discrepancy, 1.41 at most): the distance of the mean
embeddings of the documents' vectors.</dd>
<dt>Embeddings</dt>
<dd>Where an encoder is given, each of some random documents becomes a vector, and MMD with a
Gaussian kernel says how far the vectors of both texts are apart; the kernel's width is the median
distance of all of them, which no exchange of documents changes. There are no clusters and no seed
but that of the documents and of their exchanges. It sees what the encoder sees, which is what a
text is about more than how well it is written, and only the beginning of a long document (row
<em>cut</em>); unknown words are left out. Its limits are for endless texts, each on one side, and
can both lie below the distance, which is too large for few documents. <em>squared_mmd</em> is not
too large on average, and may be negative. <em>smallest_shift</em> is the share of documents of a
single topic that the test finds in 80% of cases at p &lt; 0.005, unadjusted.</dd>
<dt>Floor, excess</dt>
<dd>Two texts of one author are never 0 apart: the fewer documents, the farther. So floor, distance
and excess are of one size, that of half of the reference, or of the samples where these have fewer
documents. The <b>floor</b> is the mean distance of two random halves of the reference, over 199
splits; the <b>distance</b> is the mean one of as many samples from such halves; the <b>excess</b>
is distance minus floor: what the samples add. Where the reference has groups, each half has half of
them; with fewer than 20 effective groups in a half there is no floor, and the distance is that of
all documents, as <em>value_all</em> in tendencies.csv always is. The excess is no estimate of a
distance between endless texts, and never compares with the excess at another size. Words are
counted at equal tokens: of longer texts random documents are taken.</dd>
<dt>95% limits</dt>
<dd>Of a mean, a difference of means or Heaps' law, [a, b] holds what endless text of this kind
would have; of Zipf's split fit, what it would have for the words as this text ranks them. A
distance of finite texts is too large on average, so that no such interval would do: <b>≤ b</b> is
an <b>upper limit</b>, which the distance of endless texts exceeds in at most 5% of such
comparisons. Limits are from all documents, and a distance of fewer can lie above them.
TVD has a <b>lower limit</b> as well, [a, b], from words that are chosen in one half of the texts
and counted in the other.</dd>
<dt>p, stars</dt>
<dd>How often chance does this: documents are exchanged at random between the two texts, and p is
the share of exchanges that put them at least as far apart. Distances are tested on one side: only a
large one speaks against the samples. The tests of this page are one family, and p is
<b>adjusted</b> for all of them (Holm): the chance of even one false star is at most 5%.
** p &lt; 0.005, * p &lt; 0.05. Of B exchanges the smallest p is 1 / (B + 1), so that with few of
them no star can appear: the settings below say what can. Unadjusted p-values are in
tendencies.csv.</dd>
<dt>Groups</dt>
<dd>Documents of one page or author are no independent draws. Where a column names their groups,
whole groups are exchanged. Where the reference alone has groups, each is exchanged for a random
group of as many samples. What such an exchange cannot test soundly has <b>no verdict</b>: ranks,
and types by length, since it does not keep the lengths that they depend on. Where whole groups are
exchanged, a difference of lengths shows in types by length too. Where the samples alone have
groups, such as several answers of one prompt, one document of each is compared with single
documents of the reference: distances are averaged over 20 such draws, which are the same in every
exchange. Groups of both texts are exchanged where their mean sizes are alike within a factor of 2;
others, of which neither text's are nearly single documents, have no verdict, nor has anything below
20 groups. Without groups two halves of one book can differ.</dd>
<dt>Verdict</dt>
<dd><b>differs</b>: adjusted p below 0.05. <b>no difference found</b>: none was seen, which is not
that there is none; the upper limit says how large it may be. <b>no verdict</b>: no sound test is
possible, for the reason given. <b>not tested</b>: no test was asked for, or the number describes.
With many documents even trifles differ: then the size of the excess is what counts. The test sees
all documents, the excess a part of them: a row can differ with an excess near 0.</dd>
<dt>Smallest difference</dt>
<dd>A test of few documents finds large differences alone. As a rule of thumb four times the
documents find differences half as large; the distance from the floor to the upper limit is what
these texts leave open.</dd>
<dt>What the texts are made of</dt>
<dd>No test of a tendency sees a copied text: a program that repeats its training text passes them
all. So the shares of repeated documents, of 8 tokens in a row that stand in the training text
(where one was given), of unknown words and of unfinished documents stand beside. <b>Fragments</b>
are documents without the end of any sentence, such as headings: where one side has more of them,
they alone make a difference, and can be left out by their number of tokens.</dd>
<dt>Vocabulary</dt>
<dd>A model of a closed vocabulary writes &lt;unk&gt; where human text has a rare word. Where its
vocabulary is given, both texts are read in it: the words outside of it are &lt;unk&gt; on both
sides. The comparison of the raw texts then stands below, where the missing words count as a
difference.</dd>
</dl>
"""

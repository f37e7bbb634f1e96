"""The cheapest safe way to an answer: recall, inference, a table, a number of its own, or not at all.

    planner            reads, recalls, answers and prices statements: what a session talks to
      |- file_plan         all statements of a file bought for together, after a pilot
      |- group_quantiles   quantiles of every group, at one price
      |- unknown_keys      GROUP BY keys that noise chooses
      |- clipping          bounds of a column that nobody knows
    choice             which way a question goes: known, one number, a table, or not sold
      |- usefulness        bars held against all that an answer could be
      |- known_answers     every way to answer from what was released
      |- sizing            the purchase that a share or an accuracy buys; ski rental
    quantiles          the exponential mechanism; trees of counts
    purchases          orders; the buyer, who alone reads a secret; what was bought
    estimates          numbers with bars from what tables say
    layout             a wanted number over cells; what tables say of it
    wanted             a statement as the numbers that it wants
    columns            declared columns, cut into cells

Each imports only from the lines below it, or from those that hang on the same line; `keyhole.defence.tables` is under
all of them.
"""

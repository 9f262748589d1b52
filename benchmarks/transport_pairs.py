"""Sentence pairs (own text) for costs from real embeddings."""

PAIRS = [
    ("The heavy rain kept the children indoors all afternoon.", "Because it poured, the kids stayed inside until evening."),
    ("She sold her old bicycle to a student from the village.", "A student living in the village bought her used bike."),
    ("The committee will publish its report next Thursday.", "Next Thursday the panel is going to release the findings."),
    ("Two ships left the harbour before the storm arrived.", "Before the gale came in, a pair of vessels had put to sea."),
    ("Prices for wheat fell sharply after the good harvest.", "A rich harvest made wheat much cheaper."),
    ("The engineer explained why the bridge had to be closed.", "Why the bridge was shut was made clear by the engineer."),
    ("My grandmother bakes bread every Sunday morning.", "Each Sunday morning fresh loaves come out of my grandma's oven."),
    ("Nobody expected the small team to win the championship.", "That the little club would take the title surprised everyone."),
    ("The museum lent three paintings to a gallery in Lisbon.", "A Lisbon gallery borrowed a trio of pictures from the museum."),
    ("He forgot his keys and waited outside for an hour.", "Without his keys he stood in front of the door for sixty minutes."),
    ("The new law makes it harder to dismiss employees.", "Under the recent act, firing workers has become more difficult."),
    ("Scientists found traces of water beneath the surface of the moon.", "Below the lunar ground researchers discovered signs of water."),
    ("The train was late, so we missed the beginning of the concert.", "We came too late for the opening piece as our train was delayed."),
    ("Farmers in the valley grow apples, pears and cherries.", "The valley's growers produce cherries, apples and pears."),
    ("The company plans to open a second factory abroad.", "A further plant in a foreign country is planned by the firm."),
    ("After the long meeting everyone wanted a cup of coffee.", "Coffee was what all of them wished for once the endless session ended."),
]  # fmt: skip

"""The names of the datasets' classes, indexed by label."""

from __future__ import annotations

NUMERALS = tuple("0123456789")

FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)

CIFAR100_CLASSES = (
    *("apple", "aquarium_fish", "baby", "bear", "beaver"),
    *("bed", "bee", "beetle", "bicycle", "bottle"),
    *("bowl", "boy", "bridge", "bus", "butterfly"),
    *("camel", "can", "castle", "caterpillar", "cattle"),
    *("chair", "chimpanzee", "clock", "cloud", "cockroach"),
    *("couch", "crab", "crocodile", "cup", "dinosaur"),
    *("dolphin", "elephant", "flatfish", "forest", "fox"),
    *("girl", "hamster", "house", "kangaroo", "keyboard"),
    *("lamp", "lawn_mower", "leopard", "lion", "lizard"),
    *("lobster", "man", "maple_tree", "motorcycle", "mountain"),
    *("mouse", "mushroom", "oak_tree", "orange", "orchid"),
    *("otter", "palm_tree", "pear", "pickup_truck", "pine_tree"),
    *("plain", "plate", "poppy", "porcupine", "possum"),
    *("rabbit", "raccoon", "ray", "road", "rocket"),
    *("rose", "sea", "seal", "shark", "shrew"),
    *("skunk", "skyscraper", "snail", "snake", "spider"),
    *("squirrel", "streetcar", "sunflower", "sweet_pepper", "table"),
    *("tank", "telephone", "television", "tiger", "tractor"),
    *("train", "trout", "tulip", "turtle", "wardrobe"),
    *("whale", "willow_tree", "wolf", "woman", "worm"),
)

CIFAR100_SUPERCLASSES = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)
"""The superclass of each of CIFAR-100's classes (its "coarse labels")."""

CLOTHING_CLASSES = (
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
)
"""Clothing1M's classes, in the order of its ``category_names_eng.txt``."""

WEBVISION_CLASSES = (
    *("tench", "goldfish", "great white shark", "tiger shark", "hammerhead"),
    *("electric ray", "stingray", "cock", "hen", "ostrich"),
    *("brambling", "goldfinch", "house finch", "junco", "indigo bunting"),
    *("robin", "bulbul", "jay", "magpie", "chickadee"),
    *("water ouzel", "kite", "bald eagle", "vulture", "great grey owl"),
    *("European fire salamander", "common newt", "eft", "spotted salamander", "axolotl"),
    *("bullfrog", "tree frog", "tailed frog", "loggerhead", "leatherback turtle"),
    *("mud turtle", "terrapin", "box turtle", "banded gecko", "common iguana"),
    *("American chameleon", "whiptail", "agama", "frilled lizard", "alligator lizard"),
    *("Gila monster", "green lizard", "African chameleon", "Komodo dragon", "African crocodile"),
)
"""The first fifty classes of ImageNet, which WebVision has too."""

COVIDX_CLASSES = ("normal", "pneumonia", "COVID-19")

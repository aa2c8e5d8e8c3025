"""Tables of items as people have them: texts, numbers, categories, dates; and views of them."""

"""Limits of rows of the log and of answers. Settings may limit requests further."""

#: characters of an id or a name: two of them fit in a page of a database's index
MAX_ID_LENGTH = 256
#: characters of a typed query, and of an item's text, image or field
MAX_QUERY_TEXT, MAX_ITEM_TEXT = 32_768, 2**20
#: items that one judgement may show
MAX_SHOWN = 1000
#: views of an item, its fields, and numbers in one of its vectors
MAX_VIEWS, MAX_FIELDS, MAX_VIEW_WIDTH = 64, 256, 65_536
#: weight of a judgement, and of one that no administrator uploads
MAX_WEIGHT, MAX_FEEDBACK_WEIGHT = 1e6, 10.0
MAX_GRADE = 1e6
#: place of an item in a list, from 1
MAX_POSITION = 10**9
#: time that a person may take to answer: eleven days
MAX_MILLISECONDS = 10**9
#: queries that a learner may remember
MAX_MEMORY = 10**7

# -- what one answer may hold ----------------------------------------------------------------------

#: items that are ranked; the setting `max_k` may lower it
MAX_RANKED = 1000
#: rows of the log
MAX_LOGGED = 1000
#: questions for a person, items shown to one, and queries offered
MAX_QUESTIONS, MAX_CONTENTS, MAX_OFFERED = 100, 200, 1000
#: number of a row: the largest that a JSON number holds exactly
MAX_SEQ = 2**53
#: largest number of single precision, in which vectors are stored
MAX_FLOAT32 = 3.4028234663852886e38

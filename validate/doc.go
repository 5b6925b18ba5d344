// Package validate decides whether a notification may enter the journal.
//
// Continuity is the rule of intervals, Document the rules of the document, IsSitemap
// distinguishes documents that must follow them from plain content, and Pattern and
// Publishers define who may publish to which topic. These decide by their arguments
// alone. TopicChecker requests the topic URI, and checks whether it names this hub
// (HUB-53, HUB-54) and whether it serves what was posted. Only TopicChecker makes
// requests, through the guarded client and within the verification budget.
//
// Each kind of refusal has its own type of error. Package hub turns it into a status and
// a sentence. What is accepted goes on to the journal.
package validate

// Package validate decides whether a notification may enter the journal.
//
// Continuity is the rule of intervals, Document the rules of the document, IsSitemap
// tells what has to keep them from plain content, Pattern and Publishers say who may
// publish to which topic: they decide from their arguments alone. TopicChecker asks
// the topic URI whether it names this hub (HUB-53, HUB-54), and whether it serves what
// was posted; it is the only part that calls out, through the guarded client and
// within the verification budget it is given.
//
// What is refused here is refused with an error of its own type; package hub
// turns it into a status and a sentence. What passes goes on to the journal.
package validate

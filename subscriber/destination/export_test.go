package destination

import "time"

// StateOptions are those of the file of a copy's state.
var StateOptions = stateOptions

// LookSoon has an audit of a followed copy check its findings again at once.
func LookSoon(o *Options) { o.looks = []time.Duration{time.Millisecond} }

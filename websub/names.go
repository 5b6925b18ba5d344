package websub

// The parameters of forms and of callback queries.
const (
	ParamMode         = "hub.mode"
	ParamTopic        = "hub.topic"
	ParamCallback     = "hub.callback"
	ParamLeaseSeconds = "hub.lease_seconds"
	ParamSecret       = "hub.secret"
	ParamChallenge    = "hub.challenge"
	ParamReason       = "hub.reason"
	ParamURL          = "hub.url" // in a ping, the same as hub.topic (HUB-60)
)

// HeaderSignature is the header that signs a delivery (HUB-45).
const HeaderSignature = "X-Hub-Signature"

// The relation types that WebSub and ResourceSync use in Link headers.
const (
	RelSelf         = "self"
	RelHub          = "hub"
	RelResourceSync = "resourcesync"
)

// Param is one name and value: of a form, of a query, or of a link.
type Param struct{ Name, Value string }

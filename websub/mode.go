package websub

// Mode is the value of hub.mode.
type Mode string

// The modes.
const (
	ModeSubscribe   Mode = "subscribe"
	ModeUnsubscribe Mode = "unsubscribe"
	ModePublish     Mode = "publish" // a ping, HUB-60
	ModeDenied      Mode = "denied"  // hub to callback only, HUB-21
)

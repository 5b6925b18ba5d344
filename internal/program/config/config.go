package config

import (
	"crypto/x509"
	"net/netip"
	"time"
)

// Config holds the settings of a hub as they take effect. Nothing changes it after it was
// read, so goroutines may share it. A limit of zero means no limit.
type Config struct {
	Dev bool // --dev was given; the other fields have what it changes

	Listen    string // host:port of the public listener
	PublicURL string // the hub URI; empty: http://localhost:<the listener's port>/, or https
	// TLSCert and TLSKey are the files of the public listener's certificate; both
	// empty: it speaks plain HTTP.
	TLSCert, TLSKey string
	// AdminListen is host:port of the operator's listener. AdminToken is the token
	// that it requires; it is empty only if AdminListen is a loopback address.
	AdminListen    string
	AdminTokenFile string
	// AdminTLSCert and AdminTLSKey are the same for the operator's listener.
	AdminTLSCert, AdminTLSKey string
	AdminToken                Secret
	// AdminTokenExposed says that every user of this machine may read or change AdminTokenFile.
	AdminTokenExposed bool
	// The same of the token with which somebody may look and change nothing; both empty:
	// there is none.
	ReaderTokenFile    string
	ReaderToken        Secret
	ReaderTokenExposed bool

	DataDir string
	// SealKeyFile names the file of the keys that seal stored secrets; empty: secrets are
	// stored as plain text.
	SealKeyFile string
	NodeID      string // empty: to be chosen at random

	// RedisURL is the Redis that has the data instead of DataDir; empty: none. The URL
	// may include a password. RedisURLFile names a file with it.
	RedisURL         Secret
	RedisURLFile     string
	RedisPrefix      string
	OwnerLease       time.Duration // how long a dead hub keeps its shards
	InstallID        string        // that the store must have; empty: any
	AcceptEmptyStore bool

	Continuity  string // ContinuityStrict or ContinuityFlag
	TopicCheck  string // TopicCheckRequire, TopicCheckWarn or TopicCheckOff
	TopicAllow  []string
	TopicDeny   []string
	PublishAuth []string // of AuthContent, AuthToken, AuthOpen; at least one

	PublishersFile string
	Publishers     []Publisher

	PublishRate   Rate // for each publisher and each topic host
	PublishBytes  Rate // the same in bytes
	SubscribeRate Rate // for each requester
	VerifyBudget  int  // unconfirmed requests a minute to one host
	MaxPending    int
	// MaxPendingPerHost is how many of MaxPending one callback host may use.
	MaxPendingPerHost       int
	MaxSubscriptionsPerHost int
	MaxSubscriptions        int // in total

	Stream               string   // StreamOpen, StreamToken or StreamOff
	StreamOrigin         []string // origins, or *
	StreamStall          time.Duration
	MaxStreams           int // 0: no limit
	MaxStreamsPerAddress int // the same
	MaxHistory           int // the same

	LeaseMin, LeaseDefault, LeaseMax time.Duration // whole seconds
	ResumeWithin                     time.Duration

	Signature                    string // sha1, sha256, sha384 or sha512
	RetryFirst, RetryMax, GiveUp time.Duration
	Timeout                      time.Duration
	MaxInflight                  int   // deliveries at once
	MaxInflightBytes             int64 // bytes of notifications in memory at once
	PerHost                      int   // deliveries at once to one callback host:port
	CommitWindow                 time.Duration

	RetentionAge   time.Duration
	RetentionBytes int64 // bytes of one topic
	RetentionTotal int64 // bytes of all topics
	MinFreeDisk    int64 // bytes; 0: no limit
	MaxBody        int64 // bytes of one notification

	// AdminAuthHeader and AdminAuthRoleHeader are headers of AdminAuthProxy, canonical; empty:
	// none.
	AdminAuthHeader, AdminAuthRoleHeader string
	AdminAuthProxy                       []netip.Prefix

	AllowCIDR              []netip.Prefix
	TrustedProxy           []netip.Prefix
	AllowHost              []string // host names that browsers may use besides PublicURL's
	EgressProxy            Secret   // a URL, with the proxy's password if it has one; empty: none
	SubscriberPages        bool     // serve the pages that links lead to
	RequireHTTPSForSecrets bool
	CAFile                 string
	// RootCAs are the system's and those of CAFile; nil: the system's.
	RootCAs *x509.CertPool

	Drain     time.Duration
	LogLevel  string // debug, info, warn or error
	LogFormat string // json or console; empty: console on a terminal, else json

	// OTLPEndpoint is the URL that traces are POSTed to; empty: there are no traces.
	OTLPEndpoint string
	Pprof        bool // serve profiles; AdminToken is then not empty
}

// Values of Config.Continuity, Stream, TopicCheck and PublishAuth.
const (
	ContinuityStrict = "strict" // a gap is refused
	ContinuityFlag   = "flag"   // a gap is accepted and recorded

	StreamOpen  = "open"  // anyone may read
	StreamToken = "token" // publishers with reads may
	StreamOff   = "off"

	TopicCheckRequire = "require"
	TopicCheckWarn    = "warn"
	TopicCheckOff     = "off"

	AuthContent = "content"
	AuthToken   = "token"
	AuthOpen    = "open"
)

// pendingPerHost is Config.MaxPendingPerHost if MaxPending has a greater limit.
const pendingPerHost = 1000

// Secret is a string that is masked when it is printed, logged or encoded.
type Secret string

const masked = "********"

// String returns asterisks, or nothing for the empty Secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString returns the same in quotes, for %#v.
func (s Secret) GoString() string { return `"` + s.String() + `"` }

// MarshalText returns the same as String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Publisher is one entry of the publishers file.
type Publisher struct {
	Name   string
	Topics []string // patterns such as https://example.org/*
	// Reads are the patterns of topics that it may read (--stream=token).
	Reads []string
	// TokenSHA256 are the hashes of its bearer tokens, and Secret signs its requests. A
	// publisher has at least one of these credentials.
	TokenSHA256 [][32]byte
	Secret      Secret
	// SecretFile is the file with Secret; empty: there is none.
	SecretFile string
}

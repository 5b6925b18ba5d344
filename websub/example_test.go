package websub_test

import (
	"errors"
	"fmt"

	"github.com/rshub/rshub/websub"
)

// A hub reads a request to subscribe.
func ExampleParseSubscribe() {
	body := "hub.mode=subscribe&hub.topic=https%3A%2F%2Fexample.org%2Fchanges&hub.callback=https%3A%2F%2Fexample.com%2Fin%3Fid%3D7&hub.lease_seconds=86400"
	form, err := websub.ParseForm([]byte(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := websub.ParseSubscribe(form)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Mode, r.Topic)
	fmt.Println(r.Callback, r.Lease)
	// Output:
	// subscribe https://example.org/changes
	// https://example.com/in?id=7 24h0m0s
}

// An error is a sentence for the sender.
func ExampleFormError() {
	form, _ := websub.ParseForm([]byte("hub.mode=subscribe&hub.topic=https://example.org/&hub.callback=https://example.com/&hub.lease_seconds=soon"))
	_, err := websub.ParseSubscribe(form)
	var fe *websub.FormError
	if errors.As(err, &fe) {
		fmt.Println(fe.Param)
		fmt.Println(fe)
	}
	// Output:
	// hub.lease_seconds
	// hub.lease_seconds is "soon": send a whole number of seconds greater than 0, in digits alone, or leave it out for the hub's default
}

func ExampleParsePing() {
	form, _ := websub.ParseForm([]byte("hub.mode=publish&hub.url=https://example.org/a&hub.topic=https://example.org/b"))
	topics, err := websub.ParsePing(form)
	fmt.Println(topics, err)
	// Output: [https://example.org/a https://example.org/b] <nil>
}

func ExampleCheckURL() {
	fmt.Println(websub.CheckURL("hub.callback", "https://example.com/in?id=7"))
	fmt.Println(websub.CheckURL("hub.callback", "example.com/in"))
	// Output:
	// <nil>
	// hub.callback is not an http or https URL: send an absolute URL such as https://example.org/path
}

// A verification of intent keeps the callback's own query.
func ExampleAppendQuery() {
	fmt.Println(websub.AppendQuery("https://example.com/in?id=7",
		websub.Param{Name: websub.ParamMode, Value: "subscribe"},
		websub.Param{Name: websub.ParamTopic, Value: "https://example.org/"}))
	// Output: https://example.com/in?id=7&hub.mode=subscribe&hub.topic=https%3A%2F%2Fexample.org%2F
}

// A subscriber looks for the hubs of a topic.
func ExampleParseLinks() {
	header := []string{`<https://example.org/a,b>; rel="self", <https://hub.example/>; rel=hub`}
	links := websub.ParseLinks(header)
	fmt.Println(websub.Targets(links, websub.RelSelf), websub.Targets(links, websub.RelHub))
	// Output: [https://example.org/a,b] [https://hub.example/]
}

func ExampleFormatLinks() {
	fmt.Println(websub.FormatLinks(
		websub.Link{Target: "https://example.org/changes", Rels: []string{websub.RelSelf}},
		websub.Link{Target: "https://hub.example/", Rels: []string{websub.RelHub}}))
	// Output: <https://example.org/changes>; rel="self", <https://hub.example/>; rel="hub"
}

func ExampleSignatureMethod_Sign() {
	fmt.Println(websub.SHA1.Sign("secret", []byte("hello")))
	// Output: sha1=5112055c05f944f85755efc5cd8970e194e9f45b
}

// A subscriber checks a delivery and accepts nothing weaker than SHA-256.
func ExampleVerifySignature() {
	body := []byte("hello")
	header := websub.SHA256.Sign("secret", body)
	fmt.Println(websub.VerifySignature(header, "secret", body, websub.SHA256, websub.SHA384, websub.SHA512))
	err := websub.VerifySignature(header, "another secret", body)
	fmt.Println(errors.Is(err, websub.ErrSignatureMismatch))
	// Output:
	// <nil>
	// true
}

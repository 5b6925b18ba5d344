package resourcesync

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// withoutNamespaces is a document in which a letter stands for each colon. Where namespaces mean nothing, a
// colon is one more letter, so one is as well-formed as the other.
func withoutNamespaces(doc string) string { return strings.ReplaceAll(doc, ":", "\u2135") }

// scan runs a scanner over doc and writes down its events.
func scan(r io.Reader, l Limits) (string, error) {
	s := newScanner(r, l)
	var b, text strings.Builder
	for {
		ev, err := s.next(), s.in.err
		// How much of a text comes before an error is up to the window.
		if (ev == evStart || ev == evEnd) && text.Len() > 0 {
			fmt.Fprintf(&b, "text %q\n", text.String())
			text.Reset()
		}
		if err != nil {
			s.next()
			if again := s.in.err; again != err { //nolint:errorlint // the very same
				return "", fmt.Errorf("said %w, then %w", err, again)
			}
			if errors.Is(err, io.EOF) {
				return b.String(), nil
			}
			return b.String(), err
		}
		switch ev {
		case evText:
			text.Write(s.text)
		case evEnd:
			b.WriteString("end\n")
		case evStart:
			fmt.Fprintf(&b, "start {%q}%s", s.scopes.uriOf(s.ns), s.local)
			for i := range s.attrs {
				if a := &s.attrs[i]; a.declares {
					fmt.Fprintf(&b, " %s=%q", s.attrName(a), s.value(a))
				} else {
					fmt.Fprintf(&b, " {%q}%s=%q", s.scopes.uriOf(a.ns), s.attrLocal(a), s.value(a))
				}
			}
			b.WriteByte('\n')
		}
	}
}

// malformed has, for each kind of error, documents that must be refused and the
// well-formed twin of each, which differs by as little as possible.
var malformed = []struct {
	name      string
	bad, good string
	kind      ErrorKind // NotWellFormed if 0
	at        string    // line:column
	msg       string    // part of the message
}{
	{name: "empty", bad: "", good: "<a/>", at: "1:1", msg: "no root element"},
	{name: "white space only", bad: " \n ", good: " \n <a/>", at: "2:2", msg: "no root element"},
	{name: "text only", bad: "hello", good: "<a>hello</a>", at: "1:1", msg: "text before"},
	{name: "comment only", bad: "<!-- a -->", good: "<!-- a --><a/>", at: "1:11", msg: "no root"},
	{name: "unclosed element", bad: "<a><b></b>", good: "<a><b></b></a>", at: "1:11", msg: `end tag of "a"`},
	{name: "crossed elements", bad: "<a><b></a></b>", good: "<a><b></b></a>", at: "1:7", msg: `does not match the open element "b"`},
	{name: "case of end tag", bad: "<a></A>", good: "<a></a>", at: "1:4", msg: "does not match"},
	{name: "longer end tag", bad: "<a></ab>", good: "<ab></ab>", at: "1:4", msg: "does not match"},
	{name: "end tag first", bad: "</a>", good: "<a></a>", at: "1:1", msg: "closes nothing"},
	{name: "end tag too many", bad: "<a/></a>", good: "<a><a/></a>", at: "1:5", msg: "closes nothing"},
	{name: "attribute in end tag", bad: `<a></a b="c">`, good: `<a b="c"></a>`, at: "1:8", msg: "end tag must end"},
	{name: "space before the name of an end tag", bad: "<a></ a>", good: "<a></a >", at: "1:6", msg: "unexpected character"},
	{name: "unfinished end tag", bad: "<a></a", good: "<a></a>", at: "1:7", msg: "ends within an end tag"},
	{name: "unfinished end tag after space", bad: "<a></a ", good: "<a></a >", at: "1:8", msg: "ends within an end tag"},
	{name: "second root", bad: "<a/><b/>", good: "<a><b/></a>", at: "1:5", msg: "second root"},
	{name: "text after the root", bad: "<a/>\nb", good: "<a>\nb</a>", at: "2:1", msg: "text after"},
	{name: "reference after the root", bad: "<a/>&#32;", good: "<a/> ", at: "1:5", msg: "text after"},
	{name: "CDATA after the root", bad: "<a/><![CDATA[]]>", good: "<a><![CDATA[]]></a>", at: "1:5", msg: "CDATA section outside"},
	{name: "CDATA before the root", bad: "<![CDATA[]]><a/>", good: "<a><![CDATA[]]></a>", at: "1:1", msg: "CDATA section outside"},
	{name: "unfinished CDATA", bad: "<a><![CDATA[x]]</a>", good: "<a><![CDATA[x]]]]></a>", at: "1:20", msg: "within a CDATA"},
	{name: "lower-case CDATA", bad: "<a><![cdata[x]]></a>", good: "<a><![CDATA[x]]></a>", at: "1:4", msg: "neither"},
	{name: "CDATA end in text", bad: "<a>x]]>y</a>", good: "<a>x]] >]>y</a>", at: "1:5", msg: `"]]>"`},
	{name: "less-than in text", bad: "<a>1 < 2</a>", good: "<a>1 &lt; 2</a>", at: "1:6", msg: "&lt;"},
	{name: "ampersand in text", bad: "<a>R&D</a>", good: "<a>R&amp;D</a>", at: "1:5", msg: "&amp;"},
	{name: "ampersand and space", bad: "<a>R & D</a>", good: "<a>R &amp; D</a>", at: "1:6", msg: "&amp;"},
	{name: "unknown entity", bad: "<a>&nbsp;</a>", good: "<a>&#160;</a>", at: "1:4", msg: `entity "nbsp" is not declared`},
	{name: "entity of the wrong case", bad: "<a>&AMP;</a>", good: "<a>&amp;&lt;&gt;&quot;&apos;</a>", at: "1:4", msg: "not declared"},
	{name: "reference without semicolon", bad: "<a>&#65</a>", good: "<a>&#65;</a>", at: "1:4", msg: "character reference"},
	{name: "reference without digits", bad: "<a>&#;</a>", good: "<a>&#9;</a>", at: "1:4", msg: "character reference"},
	{name: "upper-case X", bad: "<a>&#X41;</a>", good: "<a>&#x4a;&#x4A;</a>", at: "1:4", msg: "character reference"},
	{name: "hexadecimal digit in a decimal reference", bad: "<a>&#4a;</a>", good: "<a>&#x4a;</a>", at: "1:4", msg: "character reference"},
	{name: "reference to a control character", bad: "<a>&#1;</a>", good: "<a>&#9;&#10;&#13;&#32;</a>", at: "1:4", msg: "does not allow"},
	{name: "reference to NUL", bad: "<a>&#0;</a>", good: "<a>&#48;</a>", at: "1:4", msg: "does not allow"},
	{name: "reference to a surrogate", bad: "<a>&#xD800;</a>", good: "<a>&#xD7FF;&#xE000;</a>", at: "1:4", msg: "does not allow"},
	{name: "reference to U+FFFE", bad: "<a>&#xFFFE;</a>", good: "<a>&#xFFFD;</a>", at: "1:4", msg: "does not allow"},
	{name: "reference beyond Unicode", bad: "<a>&#x110000;</a>", good: "<a>&#x10FFFF;</a>", at: "1:4", msg: "does not allow"},
	{name: "reference that overflows", bad: "<a>&#99999999999999999999999;</a>", good: "<a>&#00000000000000000000000000065;</a>", at: "1:4", msg: "does not allow"},
	{name: "unfinished reference", bad: "<a>&am", good: "<a>&amp;</a>", at: "1:7", msg: "within a reference"},
	{name: "control character in text", bad: "<a>\x0b</a>", good: "<a>\t\n\r</a>", at: "1:4", msg: "U+000B"},
	{name: "NUL in text", bad: "<a>\x00</a>", good: "<a>0</a>", at: "1:4", msg: "U+0000"},
	{name: "NUL in an attribute", bad: "<a b='\x00'/>", good: "<a b='0'/>", at: "1:7", msg: "U+0000"},
	{name: "NUL in a tag", bad: "<a \x00/>", good: "<a  />", at: "1:4", msg: "U+0000"},
	{name: "NUL after the root", bad: "<a/>\x00", good: "<a/> ", at: "1:5", msg: "U+0000"},
	{name: "control character in a comment", bad: "<!--\x01--><a/>", good: "<!--\x7f--><a/>", at: "1:5", msg: "U+0001"},
	{name: "control character in CDATA", bad: "<a><![CDATA[\x02]]></a>", good: "<a><![CDATA[\u0085]]></a>", at: "1:13", msg: "U+0002"},
	{name: "control character in an instruction", bad: "<?a \x02?><a/>", good: "<?a b?><a/>", at: "1:5", msg: "U+0002"},
	{name: "U+FFFF in text", bad: "<a>é\uffff</a>", good: "<a>é\ufffd</a>", at: "1:5", msg: "U+FFFF"},
	{name: "U+FFFE in an attribute", bad: "<a b='\ufffe'/>", good: "<a b='\U0001fffe'/>", at: "1:7", msg: "U+FFFE"},
	{name: "duplicate attribute", bad: `<a b="1" b="2"/>`, good: `<a b="1" c="2"/>`, at: "1:10", msg: "there twice"},
	{name: "attribute without value", bad: "<a b/>", good: `<a b=""/>`, at: "1:5", msg: "quoted value"},
	{name: "unquoted value", bad: "<a b=c/>", good: "<a b='c'/>", at: "1:6", msg: "in quotes"},
	{name: "mixed quotes", bad: `<a b='c"/>`, good: `<a b='"' c="'"/>`, at: "1:11", msg: "ends within"},
	{name: "no space between attributes", bad: `<a b="1"c="2"/>`, good: `<a b="1" c="2"/>`, at: "1:9", msg: "white space is missing"},
	{name: "space within a name", bad: `<a b c="2"/>`, good: `<a bc = "2" />`, at: "1:6", msg: "quoted value"},
	{name: "less-than in a value", bad: `<a b="<"/>`, good: `<a b="&lt;>"/>`, at: "1:7", msg: "&lt;"},
	{name: "ampersand in a value", bad: `<a b="?c&d=e"/>`, good: `<a b="?c&amp;d=e"/>`, at: "1:9", msg: "&amp;"},
	{name: "attribute name with a digit first", bad: `<a 1b=""/>`, good: `<a b1=""/>`, at: "1:4", msg: "unexpected"},
	{name: "element name with a digit first", bad: "<1a/>", good: "<a1/>", at: "1:1", msg: "name"},
	{name: "element name with a hyphen first", bad: "<-a/>", good: "<a-.·_/>", at: "1:1", msg: "name"},
	{name: "combining character first", bad: "<\u0301/>", good: "<a\u0301\u203f/>", at: "1:1", msg: "name"},
	{name: "multiplication sign in a name", bad: "<a×b/>", good: "<aÖb/>", at: "1:3", msg: "unexpected"},
	{name: "space after the slash", bad: "<a/ >", good: "<a />", at: "1:4", msg: "must follow"},
	{name: "unfinished start tag", bad: "<a b='c'", good: "<a b='c'/>", at: "1:9", msg: "within a start tag"},
	{name: "unfinished name", bad: "<", good: "<a/>", at: "1:1", msg: "name"},
	{name: "start tag within a start tag", bad: "<a <b/></a>", good: "<a ><b/></a>", at: "1:4", msg: "unexpected"},
	{name: "double hyphen in a comment", bad: "<!-- a -- b --><a/>", good: "<!-- a - - b --><a/>", at: "1:8", msg: `"--"`},
	{name: "comment with three hyphens at the end", bad: "<!-- a ---><a/>", good: "<!-- a - --><a/>", at: "1:8", msg: `"--"`},
	{name: "unfinished comment", bad: "<a><!-- </a>", good: "<a><!-- --></a>", at: "1:13", msg: "within a comment"},
	{name: "half a comment", bad: "<!- a --><a/>", good: "<!-- a --><a/>", at: "1:1", msg: "neither"},
	{name: "unfinished instruction", bad: "<a/><?b c>", good: "<a/><?b c?>", at: "1:11", msg: "within a processing instruction"},
	{name: "instruction without target", bad: "<? b?><a/>", good: "<?b?><a/>", at: "1:3", msg: "unexpected"},
	{name: "instruction target and no space", bad: "<?b+?><a/>", good: "<?b +?><a/>", at: "1:4", msg: "unexpected"},
	{name: "instruction xml", bad: "<a><?xml version='1.0'?></a>", good: "<a><?xmlx version='1.0'?></a>", at: "1:4", msg: "very beginning"},
	{name: "instruction XML", bad: "<?XML version='1.0'?><a/>", good: "<?xml version='1.0'?><a/>", at: "1:1", msg: "very beginning"},
	{name: "space before the declaration", bad: "\n<?xml version='1.0'?><a/>", good: "<?xml version='1.0'?>\n<a/>", at: "2:1", msg: "very beginning"},
	{name: "declaration without version", bad: "<?xml encoding='UTF-8'?><a/>", good: "<?xml version='1.0' encoding='utf-8'?><a/>", at: "1:7", msg: "in this order"},
	{name: "empty declaration", bad: "<?xml ?><a/>", good: "<?xml version = \"1.0\" ?><a/>", at: "1:7", msg: "lacks the version"},
	{name: "version 1.1", bad: "<?xml version='1.1'?><a/>", good: "<?xml version='1.0'?><a/>", at: "1:7", msg: "only 1.0"},
	{name: "encoding after standalone", bad: "<?xml version='1.0' standalone='yes' encoding='UTF-8'?><a/>", good: "<?xml version='1.0' encoding='UTF-8' standalone='yes'?><a/>", at: "1:38", msg: "in this order"},
	{name: "standalone maybe", bad: "<?xml version='1.0' standalone='maybe'?><a/>", good: "<?xml version='1.0' standalone='no'?><a/>", at: "1:21", msg: "yes"},
	{name: "no space in the declaration", bad: "<?xml version='1.0'encoding='UTF-8'?><a/>", good: "<?xml version='1.0'\tencoding='UTF-8'?><a/>", at: "1:20", msg: "white space is missing"},
	{name: "reference in the declaration", bad: "<?xml version='1.&#48;'?><a/>", good: "<?xml version='1.0'?><a/>", at: "1:7", msg: "has a reference"},
	{name: "another attribute in the declaration", bad: "<?xml version='1.0' é='1'?><a/>", good: "<?xml version='1.0'?><a/>", at: "1:21", msg: "in this order"},
	{name: "unfinished declaration", bad: "<?xml version='1.0'>", good: "<?xml version='1.0'?><a/>", at: "1:20", msg: "declaration"},
	{name: "bad name of an encoding", bad: "<?xml version='1.0' encoding=' UTF-8'?><a/>", good: "<?xml version='1.0' encoding='UTF-8'?><a/>", at: "1:21", msg: "no name of an encoding"},

	{name: "declared ISO-8859-1", bad: "<?xml version='1.0' encoding='ISO-8859-1'?><a/>", good: "<?xml version='1.0' encoding='Utf-8'?><a/>", kind: BadEncoding, at: "1:21", msg: "ISO-8859-1"},
	{name: "UTF-16 big-endian", bad: "\xfe\xff\x00<\x00a", good: "\ufeff<a/>", kind: BadEncoding, at: "1:1", msg: "UTF-16"},
	{name: "UTF-16 little-endian", bad: "<\x00a\x00", good: "<a/>", kind: BadEncoding, at: "1:1", msg: "UTF-16"},
	{name: "Latin-1 byte in text", bad: "<a>\xe9</a>", good: "<a>\u00e9</a>", kind: BadEncoding, at: "1:4", msg: "0xE9"},
	{name: "Latin-1 byte in an attribute", bad: "<a b='\xe9'/>", good: "<a b='é'/>", kind: BadEncoding, at: "1:7", msg: "0xE9"},
	{name: "Latin-1 byte in a name", bad: "<a\xe9/>", good: "<aé/>", kind: BadEncoding, at: "1:3", msg: "0xE9"},
	{name: "Latin-1 byte in a comment", bad: "<!-- \xe9 --><a/>", good: "<!-- é --><a/>", kind: BadEncoding, at: "1:6", msg: "0xE9"},
	{name: "Latin-1 byte after the root", bad: "<a/>\xe9\n", good: "<a/>\n", kind: BadEncoding, at: "1:5", msg: "0xE9"},
	{name: "overlong encoding", bad: "<a>\xc0\xbc</a>", good: "<a>&#60;</a>", kind: BadEncoding, at: "1:4", msg: "0xC0"},
	{name: "encoded surrogate", bad: "<a>\xed\xa0\x80</a>", good: "<a>\xed\x9f\xbf</a>", kind: BadEncoding, at: "1:4", msg: "0xED"},
	{name: "cut character", bad: "<a>\xe2\x82", good: "<a>\u20ac</a>", kind: BadEncoding, at: "1:4", msg: "UTF-8"},
	{name: "an error after a byte order mark", bad: "\ufeff<a>&b;</a>", good: "\ufeff<a>b;</a>", at: "1:4", msg: "not declared"},
	{name: "DTD", bad: "<!DOCTYPE a><a/>", good: "<a/>", kind: HasDTD, at: "1:1", msg: "DOCTYPE"},
	{name: "DTD with entities", bad: "<?xml version='1.0'?>\n<!DOCTYPE a [<!ENTITY b 'c'>]>\n<a>&b;</a>", good: "<?xml version='1.0'?>\n<a>c</a>", kind: HasDTD, at: "2:1", msg: "DOCTYPE"},
	{name: "DTD within", bad: "<a><!DOCTYPE a></a>", good: "<a><!--DOCTYPE a--></a>", at: "1:4", msg: "neither"},
}

// namespaceErrors are well-formed without namespaces.
var namespaceErrors = []struct {
	name, bad, good, at, msg string
}{
	{"undeclared prefix", "<a:b/>", "<a:b xmlns:a='u'/>", "1:2", "not declared"},
	{"undeclared prefix of an attribute", "<b a:c=''/>", "<b a:c='' xmlns:a='u'/>", "1:4", "not declared"},
	{"prefix out of scope", "<r><b xmlns:a='u'/><a:b/></r>", "<r xmlns:a='u'><b/><a:b/></r>", "1:21", "not declared"},
	{"duplicate by namespace", "<b xmlns:p='u' xmlns:q='u' p:c='' q:c=''/>", "<b xmlns:p='u' xmlns:q='v' p:c='' q:c='' c=''/>", "1:35", "there twice"},
	{"duplicate by namespace over two levels", "<r xmlns:p='u'><b xmlns:q='u' p:c='' q:c=''/></r>", "<r xmlns:p='u'><b xmlns:q='u' p:c='' c=''/></r>", "1:38", "there twice"},
	{"two colons", "<a:b:c xmlns:a='u'/>", "<a:bc xmlns:a='u'/>", "1:5", "two colons"},
	{"colon last", "<a: xmlns:a='u'/>", "<a:b xmlns:a='u'/>", "1:3", "colon"},
	{"colon first", "<:a/>", "<a/>", "1:1", "name"},
	{"digit after the colon", "<a:1 xmlns:a='u'/>", "<a:b1 xmlns:a='u'/>", "1:3", "colon"},
	{"empty prefix binding", "<a xmlns:b=''/>", "<a xmlns=''/>", "1:4", "empty namespace"},
	{"xmlns declared", "<a xmlns:xmlns='u'/>", "<a xmlns:x='u'/>", "1:4", "must not be declared"},
	{"xmlns as prefix", "<xmlns:a/>", "<xml:a/>", "1:2", "not declared"},
	{"xml rebound", "<a xmlns:xml='u'/>", "<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>", "1:4", "belong together"},
	{"xml namespace under another prefix", "<a xmlns:x='http://www.w3.org/XML/1998/namespace'/>", "<a xml:lang='en'/>", "1:4", "belong together"},
	{"xml namespace as default", "<a xmlns='http://www.w3.org/XML/1998/namespace'/>", "<a xmlns='u'/>", "1:4", "belong together"},
	{"xmlns namespace declared", "<a xmlns:x='http://www.w3.org/2000/xmlns/'/>", "<a xmlns:x='http://www.w3.org/2000/'/>", "1:4", "must not be declared"},
	{"colon in an instruction", "<?a:b?><a/>", "<?ab?><a/>", "1:3", "colon"},
}

func wantError(t *testing.T, err error, kind ErrorKind, at, msg string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Kind != kind || fmt.Sprintf("%d:%d", e.Line, e.Column) != at || !strings.Contains(e.Msg, msg) {
		t.Errorf("got %v: %v\nwant %v at %s with %q", e.Kind, e, kind, at, msg)
	}
}

func TestMalformedAndTheirTwins(t *testing.T) {
	for _, tc := range malformed {
		t.Run(tc.name, func(t *testing.T) {
			kind := tc.kind
			if kind == 0 {
				kind = NotWellFormed
			}
			for _, as := range []func(doc string) string{strings.Clone, withoutNamespaces} {
				_, err := scan(strings.NewReader(as(tc.bad)), Limits{})
				wantError(t, err, kind, tc.at, tc.msg)
				if _, err := scan(strings.NewReader(as(tc.good)), Limits{}); err != nil {
					t.Errorf("the well-formed twin %q: %v", tc.good, err)
				}
			}
		})
	}
}

// DOC-10: prefixes are resolved, whatever they are called.
func TestNamespaceErrorsAndTheirTwins(t *testing.T) {
	for _, tc := range namespaceErrors {
		t.Run(tc.name, func(t *testing.T) {
			_, err := scan(strings.NewReader(tc.bad), Limits{})
			wantError(t, err, NotWellFormed, tc.at, tc.msg)
			if _, err := scan(strings.NewReader(withoutNamespaces(tc.bad)), Limits{}); err != nil {
				t.Errorf("without namespaces: %v", err)
			}
			if _, err := scan(strings.NewReader(tc.good), Limits{}); err != nil {
				t.Errorf("the good twin %q: %v", tc.good, err)
			}
		})
	}
}

// Whatever the reader's chunks and however small the window, the result is the
// same, place of an error included.
func TestResultDoesNotDependOnTheWindow(t *testing.T) {
	pad := strings.Repeat(" ", 70) + strings.Repeat("\n é€𝄞]]\t", 50)
	var docs []string
	for _, tc := range malformed {
		docs = append(docs, tc.bad, tc.good)
		for i := range 12 {
			// Shifts the errors over the edge of a window of 256 bytes.
			wrapped := strings.Replace(tc.bad, "<a", "<!--"+strings.Repeat("x", 230+i)+"--><a", 1)
			docs = append(docs, wrapped, "<r>"+pad+strings.Repeat("y", i)+tc.good+"</r>", "<r>"+pad[:250+i]+tc.bad+"</r>",
				"<r><![CDATA["+pad[:230+i]+"]]"+strings.Repeat("]", i)+">&#x20ac;\r\n\r</r>")
		}
	}
	for i := range 140 { // tokens of several bytes, at every place of a window
		text := "<r>" + strings.Repeat("y", 160+i)
		docs = append(docs, text+"]]></r>", text+"]] ></r>", text+"&amp;</r>", text+"\r\n</r>", text+"𝄞\ufffe</r>",
			text+"<!-- 𝄞 --></r>", text+"<?𝄞 é?></r>", text+"<![CDATA[𝄞]]></r>", text+"<a b='𝄞\r\n'/></r>",
			"<r><!--"+text+"𝄞--></r>", "<r><?a "+text+"𝄞?></r>", "<r><![CDATA["+text+"𝄞]]></r>")
	}
	for _, doc := range docs {
		want, wantErr := scan(strings.NewReader(doc), Limits{})
		for name, r := range map[string]io.Reader{
			"one byte at a time": iotest.OneByteReader(strings.NewReader(doc)),
			"data with EOF":      iotest.DataErrReader(strings.NewReader(doc)),
			"halves":             iotest.HalfReader(strings.NewReader(doc)),
			"shy of its length":  shy{strings.NewReader(doc)},
		} {
			got, err := scan(r, Limits{Token: minToken})
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%q, %s:\n%s%v\nwant\n%s%v", doc, name, got, err, want, wantErr)
			}
		}
	}
}

// shy reports a shorter length than it has.
type shy struct{ io.Reader }

func (shy) Len() int { return 1 }

func TestEvents(t *testing.T) {
	const doc = "\ufeff<?xml version='1.0'?>\r\n<!-- c --><a xmlns='u' xmlns:p=\"v\" p:x='1\r\n2\t3&#10;&amp;4' y=''>\r\n" +
		"x\ry&lt;<![CDATA[<&]]]]>&#x20ac;<p:b/><c xmlns=''>\n</c>\n</a >\n<?pi?>"
	got, err := scan(strings.NewReader(doc), Limits{})
	want := `start {"u"}a xmlns="u" xmlns:p="v" {"v"}x="1 2 3\n&4" {""}y=""
text "\nx\ny<<&]]€"
start {"v"}b
end
start {""}c xmlns=""
text "\n"
end
text "\n"
end
`
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

// DOC-60, invariant 12: limits, each at its last allowed value and one beyond it.
func TestLimits(t *testing.T) {
	repeat := strings.Repeat
	attrs := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " a%d=''", i)
		}
		return "<a" + b.String() + "/>"
	}
	for _, tc := range []struct {
		name      string
		limits    Limits
		good, bad string
		at, msg   string
	}{
		{"bytes", Limits{Bytes: 20}, "<a>" + repeat("x", 13) + "</a>", "<a>" + repeat("x", 14) + "</a>", "1:21", "longer than 20 bytes"},
		{"bytes after the root", Limits{Bytes: 20}, "<a/>" + repeat(" ", 16), "<a/>" + repeat(" ", 17), "1:21", "longer than 20 bytes"},
		{"bytes within a character", Limits{Bytes: 20}, "<a>" + repeat("x", 13) + "</a>", "<a>" + repeat("x", 15) + "€</a>", "1:21", "longer than 20 bytes"},
		{"depth", Limits{Depth: 3}, "<a><a><a/></a></a>", "<a><a><a><a/></a></a></a>", "1:10", "more than 3 deep"},
		{"attributes", Limits{Attributes: 5}, attrs(5), attrs(6), "1:34", "more than 5 attributes"},
		{"declarations in scope", Limits{Attributes: 3}, "<a xmlns:a='u' xmlns:b='u'><a xmlns:c='u'/><a xmlns:c='u'/></a>", "<a xmlns:a='u' xmlns:b='u'><a xmlns:c='u' xmlns:d='u'/></a>", "1:43", "declarations are in scope"},
		{"token, value", Limits{Token: 64}, "<a b='" + repeat("x", 50) + "'/>" + repeat(" ", 999), "<a b='" + repeat("x", 999) + "'/>", "1:1", "longer than 64 bytes"},
		{"token, value of two bytes a character", Limits{Token: 64}, "<a b='" + repeat("é", 20) + "'/>" + repeat(" ", 999), "<a b='" + repeat("é", 999) + "'/>", "1:1", "longer than 64 bytes"},
		{"token, the same by one byte on", Limits{Token: 64}, "<ab c='" + repeat("é", 20) + "'/>" + repeat(" ", 999), "<ab c='" + repeat("é", 999) + "'/>", "1:1", "longer than 64 bytes"},
		{"token, name of two bytes a character", Limits{Token: 64}, "<" + repeat("é", 20) + "/>" + repeat(" ", 999), "<" + repeat("é", 999) + "/>", "1:1", "longer than 64 bytes"},
		{"token, cut before what it does not expect", Limits{Token: 64}, "<a" + repeat(" ", 50) + "/>", "<a b" + repeat(" ", 59) + "×" + repeat(" ", 999) + "/>", "1:1", "longer than 64 bytes"},
		{"token, name", Limits{Token: 64}, "<" + repeat("x", 50) + "/>" + repeat(" ", 999), "<" + repeat("x", 999) + "/>", "1:1", "longer than 64 bytes"},
		{"token, white space", Limits{Token: 64}, "<x" + repeat(" ", 50) + "/>" + repeat(" ", 999), "<x" + repeat(" ", 999) + "/>", "1:1", "longer than 64 bytes"},
		{"token, reference", Limits{Token: 64}, "<x>&#" + repeat("0", 50) + "9;</x>" + repeat(" ", 999), "<x>&#" + repeat("0", 999) + "9;</x>", "1:4", "longer than 64 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := scan(strings.NewReader(tc.good), tc.limits); err != nil {
				t.Errorf("within the limit: %v", err)
			}
			for _, r := range []io.Reader{strings.NewReader(tc.bad), iotest.OneByteReader(strings.NewReader(tc.bad))} {
				if _, whole := r.(*strings.Reader); whole && strings.HasPrefix(tc.name, "token, cut") {
					continue // its window is longer than the token
				}
				_, err := scan(r, tc.limits)
				wantError(t, err, OverLimit, tc.at, tc.msg)
			}
		})
	}
}

// A limit does not hide an error that comes before it.
func TestErrorBeforeTheByteLimit(t *testing.T) {
	_, err := scan(strings.NewReader("<a><b></a></b>                    "), Limits{Bytes: 12})
	wantError(t, err, NotWellFormed, "1:7", "does not match")
}

func TestErrorOfTheReader(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, doc := range []string{"", "<a", "<a>text", "<a/>", "<a>\xe2", "<a b='\xe2", "<!-- ", "<?xml ", "<a>&am", "<a></a"} {
		_, err := scan(io.MultiReader(strings.NewReader(doc), iotest.ErrReader(broken)), Limits{})
		if !errors.Is(err, broken) {
			t.Errorf("%q: got %v, want %v", doc, err, broken)
		}
	}
	if _, err := scan(stuck{}, Limits{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that reads nothing: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

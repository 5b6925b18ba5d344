package resourcesync

import (
	"bytes"
	"strings"
)

// The two namespaces of every document (DOC-10), and the two of XML itself.
const (
	sitemapURI = "http://www.sitemaps.org/schemas/sitemap/0.9"
	rsURI      = "http://www.openarchives.org/rs/terms/"
	xmlURI     = "http://www.w3.org/XML/1998/namespace"
	xmlnsURI   = "http://www.w3.org/2000/xmlns/"
)

// namespace is what a prefix stands for.
type namespace int

const (
	nsNone    namespace = iota // no namespace
	nsSitemap                  // sitemapURI
	nsRS                       // rsURI
	nsXML                      // xmlURI
	nsForeign                  // any other; nsForeign + i is that of binding i
)

// bareURI is a namespace without what people write in another way by mistake: the scheme, www, capitals and the slash at the end.
func bareURI(uri string) string {
	uri = strings.ToLower(uri)
	if _, rest, ok := strings.Cut(uri, "://"); ok {
		uri = rest
	}
	return strings.TrimRight(strings.TrimPrefix(uri, "www."), "/#")
}

// scopes are the namespace declarations in scope, innermost last.
type scopes struct {
	bindings []binding
	arena    []byte // their prefixes and names
}

// binding is one declaration: offsets into scopes.arena.
type binding struct {
	prefix, uri, end int
	ns               namespace
	// name is the URI once it has been returned: thousands of attributes can have one
	// long namespace, and share it.
	name string
}

func (sc *scopes) prefix(b *binding) []byte { return sc.arena[b.prefix:b.uri] }
func (sc *scopes) uri(b *binding) []byte    { return sc.arena[b.uri:b.end] }

// namespaces are the names of the namespaces below nsForeign.
var namespaces = [...]string{nsNone: "", nsSitemap: sitemapURI, nsRS: rsURI, nsXML: xmlURI}

// uriOf returns the name of a namespace.
func (sc *scopes) uriOf(ns namespace) string {
	if ns < nsForeign {
		return namespaces[ns]
	}
	b := &sc.bindings[ns-nsForeign]
	if b.name == "" {
		b.name = string(sc.uri(b))
	}
	return b.name
}

// namespaceOf returns the namespace of a name, which is a new one if no binding has it.
// Two prefixes may stand for the same namespace.
func (sc *scopes) namespaceOf(uri []byte) namespace {
	for ns, known := range namespaces {
		if known == string(uri) {
			return namespace(ns)
		}
	}
	for i := range sc.bindings {
		if b := &sc.bindings[i]; b.ns >= nsForeign && bytes.Equal(sc.uri(b), uri) {
			return b.ns
		}
	}
	return nsForeign + namespace(len(sc.bindings))
}

// resolve returns the namespace of a prefix, the empty one being that of names
// without a prefix.
func (sc *scopes) resolve(prefix []byte) (namespace, bool) {
	for i := len(sc.bindings) - 1; i >= 0; i-- {
		if b := &sc.bindings[i]; bytes.Equal(sc.prefix(b), prefix) {
			return b.ns, true
		}
	}
	switch {
	case len(prefix) == 0:
		return nsNone, true
	case string(prefix) == "xml":
		return nsXML, true
	}
	return nsNone, false
}

func (sc *scopes) add(prefix, uri []byte) {
	b := binding{prefix: len(sc.arena), ns: sc.namespaceOf(uri)}
	sc.arena = append(sc.arena, prefix...)
	b.uri = len(sc.arena)
	sc.arena = append(sc.arena, uri...)
	b.end = len(sc.arena)
	sc.bindings = append(sc.bindings, b)
}

// drop cuts the scope to its first n bindings.
func (sc *scopes) drop(n int) {
	if n < len(sc.bindings) {
		sc.arena = sc.arena[:sc.bindings[n].prefix]
		sc.bindings = sc.bindings[:n]
	}
}

// push opens the element whose start tag ends before p.
func (s *scanner) push(p, colon int) bool {
	if len(s.open) == s.in.limits.Depth {
		return s.in.overLimit(s.in.p, "elements are nested more than %d deep", s.in.limits.Depth)
	}
	f := frame{name: len(s.names), bindings: len(s.scopes.bindings)}
	s.ns = nsNone
	if !s.declare() || !s.resolveNames(colon) || !s.unique() {
		return false
	}
	s.names = append(s.names, s.tag.name...)
	s.open = append(s.open, f)
	s.rootSeen = true
	s.in.p = p
	return true
}

// pop closes the innermost element.
func (s *scanner) pop() {
	f := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	s.names = s.names[:f.name]
	s.scopes.drop(f.bindings)
}

// openName is the name of the innermost open element.
func (s *scanner) openName() []byte {
	return s.names[s.open[len(s.open)-1].name:]
}

// declare puts the namespace declarations of the tag in scope.
func (s *scanner) declare() bool {
	for i := range s.attrs {
		a := &s.attrs[i]
		if s.in.buf[a.off] != 'x' {
			continue
		}
		var prefix []byte
		switch name := s.attrName(a); {
		case string(name) == "xmlns":
		case a.colon == len("xmlns") && string(name[:a.colon]) == "xmlns":
			prefix = name[a.colon+1:]
		default:
			continue
		}
		a.declares = true
		uri := s.value(a)
		xml := string(prefix) == "xml"
		switch {
		case string(prefix) == "xmlns":
			return s.in.refuse(a.off, "the prefix xmlns must not be declared")
		case xml != (string(uri) == xmlURI):
			return s.in.refuse(a.off, "the prefix xml and the namespace %s belong together alone", xmlURI)
		case string(uri) == xmlnsURI:
			return s.in.refuse(a.off, "the namespace %s must not be declared", xmlnsURI)
		case len(prefix) > 0 && len(uri) == 0:
			return s.in.refuse(a.off, "the prefix %s is declared with an empty namespace", quote(prefix))
		case len(s.scopes.bindings) == s.in.limits.Attributes:
			return s.in.overLimit(a.off, "more than %d namespace declarations are in scope", s.in.limits.Attributes)
		}
		s.scopes.add(prefix, uri)
	}
	return true
}

// resolveNames finds the namespaces of the element and of its attributes. An
// attribute without a prefix has none, whatever the default namespace is.
func (s *scanner) resolveNames(colon int) bool {
	var ok bool
	if s.ns, ok = s.scopes.resolve(s.tag.name[:max(colon, 0)]); !ok {
		return s.undeclared(s.in.p+1, s.tag.name[:colon])
	}
	for i := range s.attrs {
		a := &s.attrs[i]
		if a.colon < 0 || a.declares {
			continue
		}
		if a.ns, ok = s.scopes.resolve(s.attrPrefix(a)); !ok {
			return s.undeclared(a.off, s.attrPrefix(a))
		}
	}
	return true
}

func (s *scanner) undeclared(off int, prefix []byte) bool {
	return s.in.refuse(off, "the prefix %s is not declared; declare it with an attribute xmlns:prefix=\"namespace\"", quote(prefix))
}

// unique checks that no two attributes have the same name, or the same local
// name in the same namespace. Limits.Attributes keeps the square small.
func (s *scanner) unique() bool {
	for i := range s.attrs {
		a := &s.attrs[i]
		for j := range i {
			b := &s.attrs[j]
			if a.name-a.colon != b.name-b.colon || a.declares != b.declares || !bytes.Equal(s.attrLocal(a), s.attrLocal(b)) {
				continue
			}
			if a.ns == b.ns && (!a.declares || a.colon == b.colon) {
				return s.in.refuse(a.off, "the attribute %s is there twice", quote(s.attrName(a)))
			}
		}
	}
	return true
}

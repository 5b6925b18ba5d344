package ingress

import "strings"

// Bearer returns the token of an Authorization header. False: the header is empty, or its scheme is another
// one. The scheme may be in any case (RFC 9110, 11.1).
func Bearer(authorization string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(authorization, " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

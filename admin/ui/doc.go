// Package ui is the operator's page: what a browser shows below admin.PagePath.
//
// It is made of HTML from embedded templates, with links and forms, and works without
// JavaScript; static/live.js only refreshes figures and sorts tables. The package knows
// nothing of the hub: it asks the API for all that it shows, and hands on to the API what
// a form asks for, in the same process and in the name of whoever sent the request. So the
// page can do nothing that the API cannot, and package admin decides who may do what.
package ui

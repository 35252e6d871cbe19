// Package notify is the worker of channels push, sms and email: it reads due
// events, renders each in the user's language and local time, sends it by a
// provider, and writes what became of it as a receipt.
package notify

/** A quiet market with bursts of a few seconds, again and again. */

import type { Profile } from './profile.ts'

export const spike: Profile = {
  about: 'quiet, and every twenty seconds five seconds of ten times as much',
  rate: 150,
  seconds: 90,
  markets: 20,
  traders: 500,
  sockets: 200,
  connections: 128,
  mix: { place: 35, cross: 25, cancel: 10, book: 20, trades: 5, orders: 5 },
  surge: (second) => (second % 20 >= 15 ? 10 : 1),
}

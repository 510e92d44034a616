/** A little of every kind of load, to check that everything works. */

import type { Profile } from './profile.ts'

export const smoke: Profile = {
  about: 'a little of everything for ten seconds',
  rate: 50,
  seconds: 10,
  markets: 3,
  traders: 20,
  sockets: 20,
  connections: 16,
  mix: { place: 40, cross: 25, cancel: 15, book: 10, trades: 4, orders: 4, markets: 2 },
}

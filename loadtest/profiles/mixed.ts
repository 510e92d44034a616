/** A busy day: traders, readers and sockets on a hundred markets. */

import type { Profile } from './profile.ts'

export const mixed: Profile = {
  about: 'a busy day: writes, reads and sockets on a hundred markets',
  rate: 600,
  seconds: 300,
  markets: 100,
  traders: 1_000,
  sockets: 1_000,
  connections: 128,
  mix: { place: 30, cross: 20, cancel: 10, book: 20, trades: 10, orders: 8, markets: 2 },
}

/** An hour at a moderate rate: memory, files and latency must not grow. */

import type { Profile } from './profile.ts'

export const soak: Profile = {
  about: 'an hour at a moderate rate',
  rate: 200,
  seconds: 3_600,
  markets: 50,
  traders: 500,
  sockets: 500,
  connections: 64,
  mix: { place: 30, cross: 20, cancel: 10, book: 20, trades: 10, orders: 8, markets: 2 },
}

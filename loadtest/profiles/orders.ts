/** Only writes: how many orders the exchange accepts, and how fast. */

import type { Profile } from './profile.ts'

export const orders: Profile = {
  about: 'writes alone: placing, crossing, cancelling',
  rate: 1_000,
  seconds: 60,
  markets: 100,
  traders: 1_000,
  sockets: 0,
  connections: 128,
  mix: { place: 45, cross: 35, cancel: 20 },
}

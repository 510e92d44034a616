/** Many readers of the stream, and just enough orders to cause messages for them. */

import type { Profile } from './profile.ts'

export const stream: Profile = {
  about: 'many sockets on few markets, a flow of orders that keeps them busy',
  rate: 200,
  seconds: 60,
  markets: 10,
  traders: 100,
  sockets: 2_000,
  connections: 32,
  mix: { place: 50, cross: 30, cancel: 20 },
}

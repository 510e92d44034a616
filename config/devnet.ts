/** What `npm start` runs: everything on this machine, open writes, things to try. */

import type { Profile } from './settings.ts'

export const devnet: Profile = {
  profile: 'devnet',
  front: { corsOrigins: ['*'] },
  auth: { bearer: false },
  demoMarkets: true,
  log: { level: 'warn' },
}

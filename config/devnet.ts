/** What `npm start` runs: everything on this machine, open writes, things to try. */

import type { Profile } from './settings.ts'

export const devnet: Profile = {
  profile: 'devnet',
  front: { corsOrigins: ['*'] },
  auth: { bearer: false },
  limits: { enabled: false },
  demoMarkets: true,
  // The local chain's id, and where the first contract of its first account stands.
  chains: [
    { chainId: 31_337, role: 'test', settlement: '0x5FbDB2315678afecb367f032d93F642f64180aa3' },
  ],
  log: { level: 'warn' },
}

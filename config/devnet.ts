/** What `npm start` runs: everything on this machine, open writes, things to try. */

import type { Profile } from './settings.ts'

export const devnet: Profile = {
  profile: 'devnet',
  front: { corsOrigins: ['*'] },
  auth: { bearer: false },
  limits: { enabled: false },
  demoMarkets: true,
  // What orders are signed for while there is no chain: the local chain's id, and where the first
  // contracts of its first account would stand.
  chains: [
    {
      chainId: 31_337,
      role: 'test',
      rpcUrls: [],
      blockExplorer: '',
      startBlock: 0,
      confirmations: 0,
      contracts: {
        settlement: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
        conditionalTokens: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512',
        stablecoin: '0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0',
        marketFactory: '0xCf7Ed3AccA5a467e9e704C703E8D87F634fB0Fc9',
        multicall: '0xDc64a140Aa3E981100a9becA4E685f962f0cF6C9',
        oracle: '0x5FC8d32690cc91D4c39d9d3abcBD16989F875707',
      },
      stablecoin: { symbol: 'USDC', decimals: 6 },
    },
  ],
  log: { level: 'warn' },
}

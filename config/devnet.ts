/** Profile of `npm start`: everything runs on this machine, writes need no bearer token, and demo markets exist. */

import type { Profile } from './settings-schema.ts'

/** Chain id of the local chain. */
export const DEVNET_CHAIN_ID = 31_337

export const devnet: Profile = {
  profile: 'devnet',
  front: { corsOrigins: ['*'] },
  auth: { bearer: false },
  limits: { enabled: false },
  // Trades settle at once, so that a new user sees the result. `maxLagSeconds: 0` sets no limit on how long a trade may
  // wait for settlement, so markets accept orders even while the chain is stopped.
  settlement: { batchWaitMs: 50, pollMs: 200, maxLagSeconds: 0 },
  // Demo users send approvals and permits before their first deposit, so the minimum holding is 0.
  relayer: { minHolding: 0, minRedemption: 0, newcomerGasPerDay: 10_000_000, tradersPercent: 0 },
  demoMarkets: true,
  // Developers settle resolutions by hand, to see how resolution works.
  resolution: { autoSettle: false },
  // The indexer polls often, because a local chain has no request limit.
  indexer: { pollMs: 100 },
  devnet: { enabled: true },
  // The local chain. The addresses of its contracts depend only on the deployer and the deployment sequence, so they
  // are the same on every fresh chain.
  chains: [
    {
      chainId: DEVNET_CHAIN_ID,
      role: 'test',
      rpcUrls: [],
      blockExplorer: '',
      startBlock: 0,
      confirmations: 0,
      contracts: {
        settlement: '0x0B306BF915C4d645ff596e518fAf3F9669b97016',
        conditionalTokens: '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512',
        stablecoin: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
        marketFactory: '0x959922bE3CAee4b8Cd9a407cc3ac1C251C2007B1',
        multicall: '0x9A9f2CCfdE556A7E9Ff0848998Aa4a0CFD8863AE',
        oracle: '0x9A676e781A523b5d0C0e43731313A708CB607508',
      },
      stablecoin: { symbol: 'USDC', decimals: 6, domainName: 'USD Coin', domainVersion: '1' },
    },
  ],
  // This private key is published, so its signatures prove nothing. The key only serves to show how a public log looks.
  transparency: { mode: 'on', keys: [`0x${'5eb1'.repeat(16)}`] },
  logging: { level: 'warn' },
}

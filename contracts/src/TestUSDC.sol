// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

/// A stablecoin for the devnet and test networks: six decimals, ERC-2612, minted by its owner.
contract TestUSDC is ERC20, ERC20Permit, Ownable {
    constructor(address owner_) ERC20("USD Coin", "USDC") ERC20Permit("USD Coin") Ownable(owner_) {}

    function decimals() public pure override returns (uint8) {
        return 6;
    }

    function mint(address to, uint256 amount) external onlyOwner {
        _mint(to, amount);
    }
}
